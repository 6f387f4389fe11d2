package storage

import (
	"errors"
	"testing"
)

func TestStorage(t *testing.T) {
	storage := NewStorage()
	if err := storage.Put("a", "text"); err != nil {
		t.Fatal(err)
	}
	if text, err := storage.Get("a"); err != nil || text != "text" {
		t.Errorf("found %q, %v", text, err)
	}
	if names := storage.Names(); len(names) != 1 || names[0] != "a" {
		t.Errorf("found %v", names)
	}
}

func TestErrors(t *testing.T) {
	storage := NewStorage()
	_, err := storage.Get("b")
	var failure *StorageError
	if !errors.As(err, &failure) || failure.Name != "b" {
		t.Errorf("found %v", err)
	}
	if storage.Put("", "text") == nil {
		t.Error("no error")
	}
}
