from .app import make_app as make_app
from .client import Client as Client
from .client import Refused as Refused
from .settings import Settings as Settings
from .settings import read_settings as read_settings
