"""Scorers: the judge itself, text measures, and other judges' methods, each a module; `registry` lists them."""
