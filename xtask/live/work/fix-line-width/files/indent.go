package wrap

import "strings"

// Indented is like Text, with a prefix before each line that is not empty; the width includes it.
func Indented(text string, width int, prefix string) string {
	wrapped := strings.Split(Text(text, width-len(prefix)), "\n")
	for i, line := range wrapped {
		if line != "" {
			wrapped[i] = prefix + line
		}
	}
	return strings.Join(wrapped, "\n")
}
