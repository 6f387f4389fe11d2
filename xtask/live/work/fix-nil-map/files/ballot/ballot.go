// Package ballot reads votes.
package ballot

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Read returns the votes of a file: one name per line. Empty lines and comments do not count.
func Read(r io.Reader) ([]string, error) {
	var votes []string
	scanner := bufio.NewScanner(r)
	for number := 1; scanner.Scan(); number++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.ContainsAny(line, ",;") {
			return nil, fmt.Errorf("line %d: more than one name", number)
		}
		votes = append(votes, line)
	}
	return votes, scanner.Err()
}
