python3 -c "import ages; assert ages.age_of('ada') == 36 and ages.age_of('nobody') == 0 and ages.age_of('') == 0"
