set -e
test ! -e storage
test -e notebook/notebook.go
if grep -rni storage --include='*.go' --include='*.md' --include=go.mod .; then exit 1; fi
grep -q 'notebook.New' README.md
test "$(grep -c '^func Test' notebook/notebook_test.go)" = 2
grep -q '^func TestErrors' notebook/notebook_test.go
grep -q '^func TestHandler' web/handler_test.go
cat > notebook/hidden_test.go <<'GO'
package notebook_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"example.org/notes/notebook"
	"example.org/notes/web"
)

func TestHidden(t *testing.T) {
	var book *notebook.Notebook = notebook.New()
	var failure *notebook.Error
	if err := book.Put("", "x"); !errors.As(err, &failure) || err.Error() != "note : the name is empty" {
		t.Errorf("found %v", err)
	}
	_ = book.Put("a", "text")
	answer := httptest.NewRecorder()
	web.New(book).ServeHTTP(answer, httptest.NewRequest("GET", "/a", nil))
	if answer.Code != 200 || answer.Body.String() != "text" {
		t.Errorf("found %d %q", answer.Code, answer.Body.String())
	}
}
GO
go vet ./...
go test ./...
