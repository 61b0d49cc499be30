"""The folder that evaluate.load reads: a judge as a metric."""
