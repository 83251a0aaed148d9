//! An effect in an SQL database that happens once: the message's key is written in the transaction of
//! the effect, where it can be written only once.
//!
//! Whatever happens between the commit and the ack, the next delivery finds the key and does nothing.

use std::sync::{Arc, Mutex, PoisonError};

use rillkit::{Broker, HandlerError, Message, State, subscribe};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Deposit {
    account: String,
    cents: u32,
    /// The first run does its work and breaks before its ack.
    breaks: bool,
}

/// Stands for a database elsewhere, and a pool of connections to it.
struct Bank(Mutex<Connection>);

#[subscribe(stream = "deposits", group = "bank", claim_idle_ms = 200)]
async fn book(deposit: Deposit, msg: Message, bank: State<Arc<Bank>>) -> Result<(), HandlerError> {
    if !bank.book(&deposit, &msg.idempotency_key())? {
        println!("  {}: booked before", deposit.account);
        return Ok(());
    }
    println!("  {}: booked {} cents", deposit.account, deposit.cents);
    if deposit.breaks {
        println!("  {}: broken before the ack", deposit.account);
        return Err("broken before the ack".into());
    }
    Ok(())
}

impl Bank {
    fn new() -> rusqlite::Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE accounts (name TEXT PRIMARY KEY, cents INTEGER NOT NULL);
             CREATE TABLE messages (key TEXT PRIMARY KEY);",
        )?;
        Ok(Self(Mutex::new(database)))
    }

    /// Books a deposit, unless the one of this key is booked; whether it did.
    fn book(&self, deposit: &Deposit, key: &str) -> rusqlite::Result<bool> {
        let mut database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = database.transaction()?;
        let is_new = "INSERT INTO messages (key) VALUES (?1) ON CONFLICT DO NOTHING";
        if transaction.execute(is_new, [key])? == 0 {
            return Ok(false);
        }
        let add = "INSERT INTO accounts (name, cents) VALUES (?1, ?2)
                   ON CONFLICT (name) DO UPDATE SET cents = cents + ?2";
        transaction.execute(add, (&deposit.account, deposit.cents))?;
        transaction.commit()?;
        Ok(true)
    }

    fn cents(&self, account: &str) -> rusqlite::Result<u32> {
        let database = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = "SELECT cents FROM accounts WHERE name = ?1";
        database.query_row(sum, [account], |row| row.get(0))
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let bank = Arc::new(Bank::new()?);
    let broker = Broker::from_env_or("memory://")?.with_state(Arc::clone(&bank));
    eprintln!("store: {broker}");
    let running = broker.start().await?;

    for (account, times, breaks) in [("ada", 3, false), ("bob", 1, true)] {
        let deposit = Deposit {
            account: account.to_owned(),
            cents: 100,
            breaks,
        };
        let body = serde_json::to_string(&deposit)?;
        println!("{account}, messages: {times}");
        for _ in 0..times {
            let fields = [("data", body.as_str()), ("rk-id", account)];
            broker.publish_fields("deposits", fields).await?;
        }
        running.drained().await?;
        println!("  {account} has {} cents", bank.cents(account)?);
    }
    running.stop().await;
    Ok(())
}
