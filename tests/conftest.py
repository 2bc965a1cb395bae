"""For all tests."""

import os

# Those who are asked are of this machine, where no proxy would find them.
os.environ["no_proxy"] = "*"
