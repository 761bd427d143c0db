"""What quantizing and serving a variant will take here, before any of it starts."""

from qpipe.forecast._forecast import Forecast, forecast
from qpipe.forecast._table import show

__all__ = ["Forecast", "forecast", "show"]
