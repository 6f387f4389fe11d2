// Command votes counts the votes of its input.
package main

import (
	"fmt"
	"os"

	"example.org/votes/ballot"
	"example.org/votes/tally"
)

func main() {
	votes, err := ballot.Read(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, "votes:", err)
		os.Exit(1)
	}
	count := tally.New()
	for _, name := range votes {
		count.Add(name)
	}
	for _, result := range count.Results() {
		fmt.Printf("%d %s\n", result.Votes, result.Name)
	}
}
