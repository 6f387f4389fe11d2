use temporalio_client::Client;
pub async fn run_worker(_client: Client, _name: &str) {}
