package web

import (
	"net/http/httptest"
	"testing"

	"example.org/notes/storage"
)

func TestHandler(t *testing.T) {
	notes := storage.NewStorage()
	if err := notes.Put("a", "text"); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]int{"/": 200, "/a": 200, "/b": 404} {
		answer := httptest.NewRecorder()
		New(notes).ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if answer.Code != code {
			t.Errorf("%s: status %d", path, answer.Code)
		}
	}
}
