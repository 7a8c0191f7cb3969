import os

print(os.environ["GREETING"], 35633)
