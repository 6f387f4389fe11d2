cat hello.txt
