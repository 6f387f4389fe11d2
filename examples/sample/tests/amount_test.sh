. lib/amount.sh

check "an amount in cents" 250 "$(amount_to_cents 2.50)"
check "an amount below one" 99 "$(amount_to_cents 0.99)"
