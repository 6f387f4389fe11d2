package tally

import (
	"reflect"
	"strings"
	"testing"

	"example.org/votes/ballot"
)

func TestResults(t *testing.T) {
	votes, err := ballot.Read(strings.NewReader("Ada\n# late\nBob\n\nAda\nCy\n"))
	if err != nil {
		t.Fatal(err)
	}
	count := New()
	for _, name := range votes {
		count.Add(name)
	}
	expected := []Result{{"Ada", 2}, {"Bob", 1}, {"Cy", 1}}
	if found := count.Results(); !reflect.DeepEqual(found, expected) {
		t.Errorf("found %v, expected %v", found, expected)
	}
	if count.Total() != 4 {
		t.Errorf("total is %d", count.Total())
	}
}
