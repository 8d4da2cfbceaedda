//! Limits of a module, and the settings for them.

use core::fmt;

/// Limits of one module. The engine receives it as it is.
#[repr(C)]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Fuel for one message: about one unit per instruction, and more for moving bytes and sending.
    pub fuel: u64,
    /// The most memory.
    pub memory_bytes: u64,
    /// CPU time for one message. Fuel is the main limit; this catches what fuel underestimates, and is checked every
    /// few milliseconds only.
    pub time_ns: u64,
    /// The longest WebAssembly, binary or text, that is compiled.
    pub code_bytes: u64,
    /// The most entries of its table.
    pub table_elements: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            fuel: 200_000,
            memory_bytes: 1 << 20,
            time_ns: 10_000_000,
            code_bytes: 1 << 20,
            table_elements: 1024,
        }
    }
}

impl Budget {
    /// Reads the budget from settings; defaults where they are unset.
    pub fn read(get: impl Fn(&str) -> Option<String>) -> Result<Budget, BadSetting> {
        let number = |name: &'static str, unit: u64, default: u64| match get(name) {
            None => Ok(default),
            Some(value) => match value.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(unit))
            {
                // No module runs with zero: it is a mistake, not a request.
                None | Some(0) => Err(BadSetting { name, value }),
                Some(number) => Ok(number),
            },
        };
        let default = Budget::default();
        Ok(Budget {
            fuel: number("FERRY_MODULE_FUEL", 1, default.fuel)?,
            memory_bytes: number("FERRY_MODULE_MEMORY_BYTES", 1, default.memory_bytes)?,
            time_ns: number("FERRY_MODULE_TIME_MS", 1_000_000, default.time_ns)?,
            code_bytes: number("FERRY_MODULE_CODE_BYTES", 1, default.code_bytes)?,
            table_elements: default.table_elements,
        })
    }
}

/// A setting that is not a number, or not a useful one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BadSetting {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is \"{}\"; it must be a number above zero", self.name, self.value)
    }
}

impl core::error::Error for BadSetting {}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn what_is_not_set_is_the_default() {
        assert_eq!(Budget::read(|_| None), Ok(Budget::default()));
    }

    #[test]
    fn settings_have_their_units() {
        let get = |name: &str| match name {
            "FERRY_MODULE_FUEL" => Some("5".to_string()),
            "FERRY_MODULE_TIME_MS" => Some(" 3 ".to_string()),
            _ => None,
        };
        let budget = Budget::read(get).unwrap();
        assert_eq!((budget.fuel, budget.time_ns), (5, 3_000_000));
    }

    #[test]
    fn a_bad_value_names_its_setting() {
        for bad in ["", "-1", "0", "many", "99999999999999999999", "18446744073709551615"] {
            let error =
                Budget::read(|name| (name == "FERRY_MODULE_TIME_MS").then(|| bad.to_string()))
                    .unwrap_err();
            assert_eq!(error.name, "FERRY_MODULE_TIME_MS");
            assert!(error.to_string().starts_with("FERRY_MODULE_TIME_MS is \""), "{error}");
        }
    }
}
