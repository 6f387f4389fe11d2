module example.org/gate

go 1.21
