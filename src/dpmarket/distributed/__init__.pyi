from .cluster import connected as connected
from .fitting import fit as fit
from .quoting import quote as quote
from .repartition import repartition as repartition
