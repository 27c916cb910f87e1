from .forecast import forecast_rules as forecast_rules
from .from_market import report_file as report_file
from .from_market import summarise_campaign as summarise_campaign
from .page import render_page as render_page
from .score import NumberScore as NumberScore
from .score import Score as Score
from .score import score_file as score_file
from .summary import Summary as Summary
