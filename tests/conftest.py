"""For all tests: no deadline for hypothesis examples (a busy machine is no bug), and the same examples in CI."""

import os

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("steady")
