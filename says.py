import os

print(os.environ["GREETING"], 41229)
