package wrap

import (
	"strings"
	"testing"
)

const sample = "The quick brown fox jumps over the lazy dog and runs away"

func TestWidth(t *testing.T) {
	for _, line := range strings.Split(Text(sample, 18), "\n") {
		if len(line) > 18 {
			t.Errorf("%q has %d columns", line, len(line))
		}
	}
}

func TestParagraphs(t *testing.T) {
	found := Text("one\ntwo\n\nthree", 40)
	if found != "one two\n\nthree" {
		t.Errorf("found %q", found)
	}
}

func TestLongWord(t *testing.T) {
	found := Text("a incomprehensible b", 5)
	if found != "a\nincomprehensible\nb" {
		t.Errorf("found %q", found)
	}
}

func TestIndented(t *testing.T) {
	found := Indented("one two", 6, "> ")
	if found != "> one\n> two" {
		t.Errorf("found %q", found)
	}
}
