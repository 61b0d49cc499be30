"""The folder that evaluate.load reads: how a judge agrees with people."""
