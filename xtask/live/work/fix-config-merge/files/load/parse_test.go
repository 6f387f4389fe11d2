package load

import "testing"

func TestParse(t *testing.T) {
	settings, err := Parse("# web\nport = 80\n\nempty =\n")
	if err != nil {
		t.Fatal(err)
	}
	if len(settings) != 2 || settings["port"] != "80" || settings["empty"] != "" {
		t.Errorf("found %v", settings)
	}
}

func TestValueWithEquals(t *testing.T) {
	settings, err := Parse("query = a=b")
	if err != nil || settings["query"] != "a=b" {
		t.Errorf("found %v, %v", settings, err)
	}
}

func TestErrors(t *testing.T) {
	for _, text := range []string{"port", "= 5"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
