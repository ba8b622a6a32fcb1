# Speeds as somebody has written them down.
hsched cache set flaky t4 100
hsched cache set long t4 100
hsched cache set long v100 300
hsched cache set short v100 300
