"""Language models that differ in nothing but how token identity reaches their values."""

__version__ = "0.1.0"
