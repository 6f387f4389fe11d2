// Package web serves notes by HTTP.
package web

import (
	"fmt"
	"net/http"
	"strings"

	"example.org/notes/storage"
)

// Handler serves the notes of a storage.
type Handler struct {
	storage *storage.Storage
}

// New returns a handler for a storage.
func New(s *storage.Storage) *Handler {
	return &Handler{storage: s}
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		for _, name := range h.storage.Names() {
			fmt.Fprintln(w, name)
		}
		return
	}
	text, err := h.storage.Get(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	fmt.Fprint(w, text)
}
