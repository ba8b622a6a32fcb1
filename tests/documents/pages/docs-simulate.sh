# The cluster of the examples.
cp examples/cluster.yaml .
