# Speeds as measured by four GPUs.
hsched cache set flaky t4 100
