sh count.sh data.txt | grep -x 3
