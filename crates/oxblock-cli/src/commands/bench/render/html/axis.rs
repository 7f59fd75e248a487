//! Scales: round steps for an axis of figures, and short names for them.

/// An axis from 0 to `top`, with a line at every `step`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Axis {
    pub top: f64,
    pub step: f64,
}

impl Axis {
    /// One that holds `largest`, with about five round steps.
    pub fn for_largest(largest: f64) -> Self {
        let largest = if largest.is_finite() && largest > 0.0 { largest } else { 1.0 };
        let rough = largest / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|factor| factor * power)
            .find(|step| *step >= rough * 0.999)
            .unwrap_or(rough);
        Self { top: (largest / step - 1e-9).ceil().max(1.0) * step, step }
    }

    /// How far `figure` is along the axis, 0 to 1.
    pub fn share(&self, figure: f64) -> f64 {
        (figure / self.top).clamp(0.0, 1.0)
    }

    /// The figures with a line.
    pub fn ticks(&self) -> impl Iterator<Item = f64> + use<> {
        let Self { top, step } = *self;
        (0..=100_u32)
            .map(move |index| f64::from(index) * step)
            .take_while(move |tick| *tick <= top * 1.0001)
    }

    /// A figure with no more digits than the steps need.
    pub fn name(&self, figure: f64) -> String {
        let (scale, letter) = match self.top {
            top if top >= 2e6 => (1e6, "M"),
            top if top >= 1e4 => (1e3, "k"),
            _ => (1.0, ""),
        };
        if figure == 0.0 {
            return "0".into();
        }
        let step = self.step / scale;
        let digits =
            [1.0, 0.1, 0.01].iter().position(|unit| (step / unit).fract() < 1e-6).unwrap_or(3);
        format!("{:.digits$}{letter}", figure / scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_hold_the_largest() {
        for (largest, top, step) in [
            (98.0, 100.0, 20.0),
            (1.0, 1.0, 0.2),
            (4882.0, 5000.0, 1000.0),
            (0.0, 1.0, 0.2),
            (11.0, 12.5, 2.5),
        ] {
            let axis = Axis::for_largest(largest);
            assert!(
                (axis.top - top).abs() < 1e-6 && (axis.step - step).abs() < 1e-6,
                "{largest}: {axis:?}"
            );
        }
        assert_eq!(Axis::for_largest(98.0).ticks().count(), 6);
    }

    #[test]
    fn names_are_short() {
        let names = |largest| {
            let axis = Axis::for_largest(largest);
            axis.ticks().map(|tick| axis.name(tick)).collect::<Vec<_>>()
        };
        assert_eq!(names(845_000.0), ["0", "200k", "400k", "600k", "800k", "1000k"]);
        assert_eq!(names(0.8), ["0", "0.2", "0.4", "0.6", "0.8"]);
        assert_eq!(names(2_400_000.0), ["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M"]);
    }
}
