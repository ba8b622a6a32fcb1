# A sweep that has run here.
. "$DOCUMENTS/sweep.sh"
