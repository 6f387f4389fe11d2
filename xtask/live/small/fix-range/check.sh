python3 -c "import squares; assert squares.squares(3) == [1, 4, 9] and squares.squares(1) == [1] and squares.squares(0) == []"
