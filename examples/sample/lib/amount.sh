# amount_to_cents AMOUNT: prints an amount as a whole number of cents.
amount_to_cents() {
    whole=${1%%.*}
    cents=${1#*.}
    echo $((whole * 100 + cents))
}
