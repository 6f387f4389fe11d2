test "$(python3 sum.py)" = 60 && printf 'item,amount\nx,5\ny,6\n' > data.csv && test "$(python3 sum.py)" = 11
