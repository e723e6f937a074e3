"""Reports of result rows: an HTML page to share, and figures for a paper."""
