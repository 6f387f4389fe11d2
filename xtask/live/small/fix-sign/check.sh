python3 -c "import calc; assert calc.add(2, 3) == 5 and calc.add(-1, 1) == 0 and calc.sub(5, 3) == 2"
