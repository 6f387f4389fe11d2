// Package tally counts votes.
package tally

import "sort"

// Tally has the votes of each name.
type Tally struct {
	counts map[string]int
	total  int
}

// Result is the number of votes of one name.
type Result struct {
	Name  string
	Votes int
}

// New returns an empty tally.
func New() *Tally {
	return &Tally{}
}

// Add counts a vote.
func (t *Tally) Add(name string) {
	t.counts[name]++
	t.total++
}

// Total returns the number of votes.
func (t *Tally) Total() int {
	return t.total
}

// Results returns the names with their votes, the most votes first.
func (t *Tally) Results() []Result {
	results := make([]Result, 0, len(t.counts))
	for name, votes := range t.counts {
		results = append(results, Result{name, votes})
	}
	sort.Slice(results, func(i, j int) bool {
		if results[i].Votes != results[j].Votes {
			return results[i].Votes > results[j].Votes
		}
		return results[i].Name < results[j].Name
	})
	return results
}
