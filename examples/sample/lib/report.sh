# show_sum COUNT CENTS: prints the last line of a list.
show_sum() {
    printf '%d items, %d.%02d in all\n' "$1" $(($2 / 100)) $(($2 % 100))
}
