"""Reports of result rows: the page that is sent around, and the figures of a paper."""
