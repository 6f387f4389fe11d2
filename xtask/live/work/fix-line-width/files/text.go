// Package wrap breaks text into lines.
package wrap

import (
	"strings"
	"unicode/utf8"
)

// Text breaks a text into lines of at most width columns. A word that is longer gets a line of its
// own. Paragraphs, which empty lines separate, stay apart.
func Text(text string, width int) string {
	var paragraphs []string
	for _, paragraph := range strings.Split(text, "\n\n") {
		paragraphs = append(paragraphs, strings.Join(lines(paragraph, width), "\n"))
	}
	return strings.Join(paragraphs, "\n\n")
}

func lines(paragraph string, width int) []string {
	var done []string
	line, columns := "", 0
	for _, word := range strings.Fields(paragraph) {
		size := utf8.RuneCountInString(word)
		if line == "" {
			line, columns = word, size
			continue
		}
		if columns+size > width {
			done = append(done, line)
			line, columns = word, size
			continue
		}
		line += " " + word
		columns += 1 + size
	}
	if line != "" {
		done = append(done, line)
	}
	return done
}
