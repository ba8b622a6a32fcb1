# Speeds as reports of ranks have measured them.
now=$(date +%s)
row() { # model, type, batch and seconds of a step, twice for two batches
  printf '{"model": "%s", "gpu_type": "%s", "precision": null, "contributor": "lab", "observations": 14, "points": [' "$1" "$2"
  printf '{"batch": %s, "seconds": %s, "variance": 0.000001, "count": 7, "steps": 280, "seen": 7, "at": %s, "source": "report"}' "$3" "$4" "$now"
  [[ $# -lt 6 ]] || printf ', {"batch": %s, "seconds": %s, "variance": 0.000001, "count": 7, "steps": 280, "seen": 14, "at": %s, "source": "report"}' "$5" "$6" "$now"
  printf ']}'
}
{
  printf '{"schema": "hsched.cache/1", "contributor": "lab", "speeds": ['
  row flaky t4 30 0.3; printf ','
  row long t4 9 0.09 12 0.12; printf ','
  row long v100 21 0.07 42 0.14; printf ','
  row short v100 30 0.1
  printf ']}'
} >speeds.json
hsched cache import speeds.json
