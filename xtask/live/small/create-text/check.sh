test "$(cat hello.txt)" = "Hello, world"
