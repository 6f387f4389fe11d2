set -e
git diff --exit-code "$(git rev-list --max-parents=0 HEAD)" -- text_test.go go.mod indent.go
cat > hidden_test.go <<'GO'
package wrap

import "testing"

func TestHidden(t *testing.T) {
	for _, one := range []struct {
		text  string
		width int
		found string
	}{
		{"aa bb cc", 5, "aa bb\ncc"},
		{"aa bb cc", 4, "aa\nbb\ncc"},
		{"aa bb cc", 8, "aa bb cc"},
		{"aa bb cc", 7, "aa bb\ncc"},
		{"äö üß", 5, "äö üß"},
		{"äö üß", 4, "äö\nüß"},
		{"a b c d e", 3, "a b\nc d\ne"},
		{"  ", 3, ""},
	} {
		if found := Text(one.text, one.width); found != one.found {
			t.Errorf("%q in %d: found %q", one.text, one.width, found)
		}
	}
	if found := Indented("aa bb cc", 7, "  "); found != "  aa bb\n  cc" {
		t.Errorf("found %q", found)
	}
}
GO
go test ./...
