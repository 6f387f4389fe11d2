//! Import cycles between the files of a crate.
//!
//! An edge leads from a file to the file that defines what it names: re-exports are followed, and
//! `mod` declarations are no edges. A file may use the modules around it. Tests are left out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use syn::visit::{self, Visit};

/// The maximum number of files in a cycle.
pub const MAX_CYCLE: usize = 3;

/// A path from the root of the crate.
type ModulePath = Vec<String>;

/// One module: a file, or a part of a file.
#[derive(Default)]
struct Module {
    file: PathBuf,
    /// The names that are defined here.
    items: BTreeSet<String>,
    /// The names that are imported here, also by `pub use`, and their paths.
    imports: HashMap<String, ModulePath>,
    /// The modules from which `use …::*` imports.
    globs: Vec<ModulePath>,
    /// All paths that the code names, as written.
    paths: Vec<ModulePath>,
}

/// Returns the groups of more than [`MAX_CYCLE`] files of one crate that import each other.
///
/// `files` has the path of each file below the crate's `src`, and its content.
pub fn cycles(files: &[(PathBuf, String)]) -> Vec<Vec<PathBuf>> {
    let mut modules = BTreeMap::new();
    for (path, text) in files {
        let (Some(module), Ok(file)) = (module_of(path), syn::parse_file(text)) else {
            continue;
        };
        read_module(path, module, &file.items, &mut modules);
    }
    let graph = edges(&modules);
    let mut groups = strongly_connected(&graph);
    groups.retain(|group| group.len() > MAX_CYCLE);
    groups
}

/// Returns the module of a file below `src`; `None` for tests and further programs.
fn module_of(path: &Path) -> Option<ModulePath> {
    let mut parts: ModulePath = path
        .with_extension("")
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    if parts.iter().any(|part| part == "tests") || parts.first().is_some_and(|first| first == "bin") {
        return None;
    }
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    Some(parts)
}

fn read_module(
    file: &Path,
    name: ModulePath,
    items: &[syn::Item],
    modules: &mut BTreeMap<ModulePath, Module>,
) {
    let mut module = Module {
        file: file.to_owned(),
        ..Module::default()
    };
    for item in items.iter().filter(|item| !is_test(item)) {
        match item {
            syn::Item::Use(import) => read_import(&import.tree, &mut Vec::new(), &mut module),
            syn::Item::Mod(syn::ItemMod {
                ident,
                content: Some((_, items)),
                ..
            }) => {
                let mut name = name.clone();
                name.push(ident.to_string());
                read_module(file, name, items, modules);
            }
            syn::Item::Mod(_) => {}
            item => {
                module.items.extend(defined_name(item));
                Paths(&mut module.paths).visit_item(item);
            }
        }
    }
    modules.insert(name, module);
}

fn is_test(item: &syn::Item) -> bool {
    let attrs = match item {
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => return false,
    };
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg") && attr.parse_args::<syn::Ident>().is_ok_and(|ident| ident == "test")
    })
}

fn defined_name(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn read_import(tree: &syn::UseTree, prefix: &mut ModulePath, module: &mut Module) {
    let mut import = |name: &syn::Ident, original: &syn::Ident| {
        let mut path = prefix.clone();
        if original != "self" {
            path.push(original.to_string());
        }
        let name = if name == "self" {
            path.last().cloned()
        } else {
            Some(name.to_string())
        };
        module.imports.extend(name.map(|name| (name, path)));
    };
    match tree {
        syn::UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            read_import(&path.tree, prefix, module);
            prefix.pop();
        }
        syn::UseTree::Name(name) => import(&name.ident, &name.ident),
        syn::UseTree::Rename(rename) => import(&rename.rename, &rename.ident),
        syn::UseTree::Glob(_) => module.globs.push(prefix.clone()),
        syn::UseTree::Group(group) => {
            for tree in &group.items {
                read_import(tree, prefix, module);
            }
        }
    }
}

/// Collects the paths of an item.
struct Paths<'a>(&'a mut Vec<ModulePath>);

impl Visit<'_> for Paths<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        let names = path.segments.iter().map(|segment| segment.ident.to_string());
        self.0.push(names.collect());
        visit::visit_path(self, path);
    }

    // Macros take their arguments unparsed: most are lists of expressions.
    fn visit_macro(&mut self, call: &syn::Macro) {
        let parser = syn::punctuated::Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated;
        for expression in call.parse_body_with(parser).into_iter().flatten() {
            self.visit_expr(&expression);
        }
        visit::visit_macro(self, call);
    }
}

fn edges(modules: &BTreeMap<ModulePath, Module>) -> BTreeMap<PathBuf, BTreeSet<PathBuf>> {
    let mut edges: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for (name, module) in modules {
        let from = edges.entry(module.file.clone()).or_default();
        for path in &module.paths {
            let target = resolve(modules, name, path, 0);
            from.extend(target.filter(|target| !contains(target, &module.file)));
        }
    }
    edges
}

/// Returns whether a file is the other one, or that of a module around it.
fn contains(outer: &Path, inner: &Path) -> bool {
    let name = |path| module_of(path).unwrap_or_default();
    name(inner).starts_with(&name(outer))
}

/// Returns the file that defines what a path names, as seen from a module.
fn resolve(
    modules: &BTreeMap<ModulePath, Module>,
    from: &ModulePath,
    path: &[String],
    depth: usize,
) -> Option<PathBuf> {
    // Imports can lead in a circle.
    if depth > 16 {
        return None;
    }
    let module = modules.get(from)?;
    let (first, remaining) = path.split_first()?;
    if matches!(first.as_str(), "crate" | "self" | "super") {
        let mut start = from.clone();
        let mut path = path;
        while let Some((first, remaining)) = path.split_first() {
            match first.as_str() {
                "crate" => start.clear(),
                "self" => {}
                "super" => drop(start.pop()),
                _ => break,
            }
            path = remaining;
        }
        return resolve(modules, &start, path, depth + 1);
    }
    if module.items.contains(first) {
        return Some(module.file.clone());
    }
    let mut child = from.clone();
    child.push(first.clone());
    if modules.contains_key(&child) {
        return resolve(modules, &child, remaining, depth + 1);
    }
    if let Some(import) = module.imports.get(first) {
        let path: ModulePath = import.iter().chain(remaining).cloned().collect();
        return resolve(modules, from, &path, depth + 1);
    }
    module.globs.iter().find_map(|glob| {
        let path: ModulePath = glob.iter().chain(path).cloned().collect();
        resolve(modules, from, &path, depth + 1)
    })
}

/// Returns the strongly connected components of a graph (Kosaraju).
fn strongly_connected(graph: &BTreeMap<PathBuf, BTreeSet<PathBuf>>) -> Vec<Vec<PathBuf>> {
    fn visit<'a>(
        node: &'a PathBuf,
        next: &dyn Fn(&'a PathBuf) -> Vec<&'a PathBuf>,
        seen: &mut BTreeSet<&'a PathBuf>,
        order: &mut Vec<&'a PathBuf>,
    ) {
        if seen.insert(node) {
            for next_node in next(node) {
                visit(next_node, next, seen, order);
            }
            order.push(node);
        }
    }
    let forward = |node: &PathBuf| graph.get(node).into_iter().flatten().collect();
    let backward = |node: &PathBuf| {
        let has = |targets: &BTreeSet<PathBuf>| targets.contains(node);
        graph
            .iter()
            .filter(|(_, targets)| has(targets))
            .map(|(from, _)| from)
            .collect()
    };
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for node in graph.keys() {
        visit(node, &forward, &mut seen, &mut order);
    }
    let (mut seen, mut groups) = (BTreeSet::new(), Vec::new());
    for node in order.into_iter().rev() {
        let mut group = Vec::new();
        visit(node, &backward, &mut seen, &mut group);
        group.sort();
        groups.push(group.into_iter().cloned().collect());
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<Vec<PathBuf>> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect();
        cycles(&files)
    }

    #[test]
    fn cycles_of_more_than_three_files_are_found() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; pub use d::D;"),
            ("a.rs", "use crate::b::B; pub struct A(B);"),
            ("b.rs", "use super::c; pub struct B; fn b() { c::c() }"),
            ("c.rs", "pub fn c() -> crate::D { todo() }"),
            (
                "d.rs",
                "pub struct D; fn d() { println!(\"{}\", crate::a::A::name()); }",
            ),
        ];
        let group = ["a.rs", "b.rs", "c.rs", "d.rs"].map(PathBuf::from).to_vec();
        assert_eq!(found(&files), [group]);
        assert!(found(&files[..4]).is_empty());
    }

    #[test]
    fn tests_and_declarations_are_no_edges() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod tests; pub use a::A;"),
            (
                "a.rs",
                "pub struct A; #[cfg(test)] mod tests { use crate::b::B; fn t() -> B { B } }",
            ),
            ("b.rs", "pub struct B(crate::A);"),
            ("c.rs", "pub struct C(crate::b::B);"),
            ("tests.rs", "fn t() -> crate::c::C { todo() }"),
        ];
        assert!(found(&files).is_empty());
    }
}
