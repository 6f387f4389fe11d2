grep '^/' cause.txt
