set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- tally/tally_test.go go.mod main.go ballot
cat > tally/hidden_test.go <<'GO'
package tally

import "testing"

func TestHidden(t *testing.T) {
	first, second := New(), New()
	if len(first.Results()) != 0 || first.Total() != 0 {
		t.Error("not empty")
	}
	first.Add("a")
	first.Add("b")
	first.Add("b")
	second.Add("c")
	if found := first.Results(); len(found) != 2 || found[0] != (Result{"b", 2}) || found[1] != (Result{"a", 1}) {
		t.Errorf("found %v", found)
	}
	if found := second.Results(); len(found) != 1 || second.Total() != 1 {
		t.Errorf("found %v", found)
	}
}
GO
go test ./...
test "$(printf 'x\ny\ny\n' | go run .)" = '2 y
1 x'
