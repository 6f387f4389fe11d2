python3 -c "import mean; assert mean.mean([]) == 0 and mean.mean([2, 4]) == 3 and mean.mean([5]) == 5"
