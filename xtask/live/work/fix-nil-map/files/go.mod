module example.org/votes

go 1.21
