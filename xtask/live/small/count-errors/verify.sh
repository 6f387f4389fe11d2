grep -xE '[0-9]+' answer.txt
