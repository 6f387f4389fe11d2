printf '1\n2\n3\n4\n5\n' > /tmp/.$$.txt; out=$(sh count.sh /tmp/.$$.txt | tr -d ' '); rm /tmp/.$$.txt; test "$out" = 5 && test "$(sh count.sh data.txt | tr -d ' ')" = 3
